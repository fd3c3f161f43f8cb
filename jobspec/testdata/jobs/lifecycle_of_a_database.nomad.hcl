# Migrates before the application starts, ships its logs beside it, and drops its lease when it ends.
job "app" {
  group "app" {
    ephemeral_disk {
      size = 1000
    }
    task "migrate" {
      driver = "exec"
      lifecycle {
        hook = "prestart"
      }
      restart {
        attempts = 5
        interval = "10m"
        delay    = "10s"
      }
      config {
        command = "/usr/local/bin/app"
        args    = ["migrate"]
      }
    }
    task "ship-logs" {
      driver = "exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        command = "/usr/local/bin/vector"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
    task "app" {
      driver         = "exec"
      leader         = true
      shutdown_delay = "3s"
      config {
        command = "/usr/local/bin/app"
        args    = ["serve"]
      }
      logs {
        max_files     = 3
        max_file_size = 5
      }
    }
    task "warm" {
      driver = "exec"
      lifecycle {
        hook = "poststart"
      }
      config {
        command = "/usr/local/bin/app"
        args    = ["warm-cache"]
      }
    }
    task "release" {
      driver = "exec"
      lifecycle {
        hook = "poststop"
      }
      config {
        command = "/usr/local/bin/app"
        args    = ["release-lease"]
      }
    }
  }
}
