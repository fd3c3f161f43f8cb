# Once on every node.
job "sysbatch" {
  type = "sysbatch"

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  group "g" {
    max_run_duration = "2h"

    restart {
      attempts = 1
      interval = "1h"
      delay    = "1m"
      mode     = "fail"
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
