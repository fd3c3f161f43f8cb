variable "priority" {
  default = 50
}

job "sums" {
  type     = "batch"
  priority = var.priority
  group "g" {
    task "redis" {
      driver = "exec"
      config {
        command = "redis-server"
      }
    }
  }
}
