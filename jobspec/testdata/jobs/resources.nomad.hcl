# What tasks may take.
job "resources" {
  group "g" {
    ephemeral_disk {
      size = 500
    }

    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }

      resources {
        cpu        = 250
        memory     = 128
        memory_max = 256
        pids       = 200
      }

      logs {
        max_files     = 3
        max_file_size = 5
      }
    }

    task "quiet" {
      driver = "exec"
      config {
        command = "/bin/quiet"
      }

      logs {
        disabled = true
      }
    }
  }
}
