"""Everything a run leaves on disk and shows on screen: directory, checkpoints, metrics, episodes, report, video.

    runs/ppo-cartpole/
      config.json       what was asked for, what it resolved to, command line, versions, hardware
      summary.json      final metrics; absent while the run trains and after a kill
      events.jsonl      restarts, resumes and warnings, one JSON object a line
      metrics.jsonl     one JSON object an interval; the same scalars under tensorboard/
      episodes.jsonl    every finished training game: seed, score and where its actions are
      actions.bin       those actions, raw
      checkpoints/      step-000000123456/ with one .safetensors per group and manifest.json
      videos/  report.html  lock

Nothing is pickled. Files that are replaced are replaced atomically; files that grow do so by whole records, and a
record torn by a kill is ignored when read and removed when the run goes on.
"""
