job "checkout" {
  update {
    max_parallel      = 3
    canary            = 3
    min_healthy_time  = "20s"
    healthy_deadline  = "4m"
    progress_deadline = "8m"
    auto_revert       = true
    auto_promote      = true
  }
  group "checkout" {
    count = 3
    update {
      health_check = "task_states"
    }
    task "checkout" {
      driver = "exec"
      config {
        command = "/usr/local/bin/checkout"
      }
    }
  }
}
