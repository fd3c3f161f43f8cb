variable "priority" {
  default = 50
}

job "roll" {
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
