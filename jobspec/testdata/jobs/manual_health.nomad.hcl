# A person says what is healthy.
job "manual-health" {
  group "g" {
    count = 3

    update {
      health_check      = "manual"
      max_parallel      = 1
      progress_deadline = "0s"
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
