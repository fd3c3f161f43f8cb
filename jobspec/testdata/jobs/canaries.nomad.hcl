# Updates that are tried by canaries.
job "canaries" {
  update {
    max_parallel      = 2
    canary            = 1
    auto_promote      = true
    auto_revert       = true
    health_check      = "checks"
    min_healthy_time  = "30s"
    healthy_deadline  = "10m"
    progress_deadline = "20m"
  }

  group "g" {
    count = 5

    update {
      canary       = 2
      auto_promote = false
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
