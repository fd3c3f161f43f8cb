# Life cycles, templates and a host volume.
job "report" {
  type = "batch"

  group "report" {
    ephemeral_disk {
      size = 1000
    }

    volume "shared" {
      type      = "host"
      source    = "shared"
      read_only = true
    }

    reschedule {
      attempts = 0
    }

    task "prepare" {
      driver = "exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $${HOME} > $NOMAD_ALLOC_DIR/ready"]
      }
    }

    task "report" {
      driver         = "exec"
      shutdown_delay = "2s"

      config {
        command = "local/report.sh"
        limits {
          nofile = 4096
          nice   = -5.5
        }
        mount "bind" {
          source = "/srv"
        }
        mount "bind" {
          source = "/opt"
        }
        labels = [{ a = true, b = null }]
      }

      template {
        destination = "local/report.sh"
        perms       = "0755"
        data        = <<-EOF
          #!/bin/sh
          # on ${node.unique.name} in ${env["HOME"]}
            echo {{ env "NOMAD_ALLOC_ID" }}
        EOF
      }

      template {
        destination     = "secrets/app.conf"
        change_mode     = "signal"
        change_signal   = "SIGHUP"
        left_delimiter  = "[["
        right_delimiter = "]]"
        splay           = "5s"
        uid             = 1000
        gid             = 1000
        data            = "WHO=[[ env \"NOMAD_TASK_NAME\" ]]\n"
      }

      volume_mount {
        volume           = "shared"
        destination      = "${NOMAD_TASK_DIR}/shared"
        read_only        = true
        propagation_mode = "private"
      }
    }

    task "watch" {
      driver = "raw_exec"
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      config {
        command = "/bin/true"
      }
    }
  }
}
