# A service of a task, at an address of its own.
job "service-of-task" {
  group "g" {
    network {
      port "http" {
        static = 8000
      }
    }

    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }

      service {
        name     = "app"
        port     = "http"
        provider = "nomad"
        address  = "198.51.100.7"
      }
    }
  }
}
