# A service on every node.
job "system" {
  type     = "system"
  priority = 80

  group "g" {
    update {
      max_parallel = 1
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
