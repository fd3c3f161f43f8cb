# A nightly dump of a database, kept on a shared volume. A run that takes too long is not started twice.
job "pg-dump" {
  datacenters = ["dc1"]
  type        = "batch"

  periodic {
    crons            = ["30 2 * * *"]
    time_zone        = "Europe/Berlin"
    prohibit_overlap = true
  }

  group "dump" {
    max_run_duration = "2h"

    restart {
      attempts = 1
      interval = "1h"
      delay    = "1m"
      mode     = "fail"
    }

    task "pg_dump" {
      driver = "exec"
      user   = "nobody"

      config {
        command = "/bin/sh"
        args    = ["-c", "pg_dump -Fc -f $NOMAD_ALLOC_DIR/data/db.dump $DATABASE"]
      }

      env {
        DATABASE = "postgres://backup@db.internal/app"
      }

      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
