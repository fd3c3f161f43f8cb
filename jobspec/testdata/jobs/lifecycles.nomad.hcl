# Tasks before, beside and after the main one.
job "lifecycles" {
  group "g" {
    shutdown_delay = "10s"

    ephemeral_disk {
      size = 600
    }

    task "migrate" {
      driver = "exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/migrate"
      }
    }

    task "proxy" {
      driver = "exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        command = "/bin/proxy"
      }
    }

    task "app" {
      driver = "exec"
      leader = true
      config {
        command = "/bin/app"
      }
    }

    task "announce" {
      driver = "exec"
      lifecycle {
        hook = "poststart"
      }
      config {
        command = "/bin/announce"
      }
    }

    task "clean" {
      driver = "exec"
      lifecycle {
        hook = "poststop"
      }
      config {
        command = "/bin/clean"
      }
    }
  }
}
