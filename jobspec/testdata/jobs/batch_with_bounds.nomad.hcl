# Nightly training: long, big, and not tried for ever.
job "train" {
  type     = "batch"
  priority = 20
  group "train" {
    max_run_duration = "12h"
    ephemeral_disk {
      size = 5000
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 1
      interval  = "24h"
      unlimited = false
    }
    task "train" {
      driver       = "exec"
      kill_timeout = "5s"
      config {
        command = "/usr/bin/python3"
        args    = ["train.py", "--shard", "${NOMAD_ALLOC_INDEX}"]
      }
      resources {
        cpu    = 2000
        memory = 2048
      }
    }
  }
}
