"""The files of a run and what it shows: directory, checkpoints, metrics, episodes, report, video.

    runs/ppo-cartpole/
      config.json       settings as given and as resolved, command line, versions, hardware
      summary.json      final metrics; absent while the run trains and after a kill
      events.jsonl      restarts, resumes and warnings, one JSON object per line
      metrics.jsonl     one JSON object per interval; the same scalars under tensorboard/
      episodes.jsonl    every finished training episode: seed, return and the location of its actions
      actions.bin       those actions, raw
      checkpoints/      step-000000123456/ with one .safetensors per group and manifest.json
      videos/  report.html  lock

Nothing is pickled. Files that are replaced are replaced atomically. Files that grow do so by whole records; a record
torn by a kill is ignored by readers and removed when the run is resumed.
"""
