job "flaky" {
  reschedule {
    delay          = "15s"
    delay_function = "fibonacci"
    max_delay      = "10m"
    unlimited      = true
  }
  group "bounded" {
    reschedule {
      attempts       = 3
      interval       = "30m"
      delay          = "10s"
      delay_function = "constant"
      unlimited      = false
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/false"
      }
    }
  }
  group "unbounded" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/false"
      }
    }
  }
}
