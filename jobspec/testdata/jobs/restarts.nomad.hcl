# What happens after a failure.
job "restarts" {
  group "g" {
    restart {
      attempts = 10
      interval = "30m"
      delay    = "5s"
      mode     = "delay"
    }

    reschedule {
      delay          = "30s"
      delay_function = "fibonacci"
      max_delay      = "10m"
      unlimited      = true
    }
    task "app" {
      driver = "exec"

      restart {
        attempts = 0
        mode     = "fail"
      }
      config {
        command = "/bin/app"
      }
    }
  }
}
