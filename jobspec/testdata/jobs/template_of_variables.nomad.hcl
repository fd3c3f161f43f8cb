# A configuration with a secret, kept as a variable; when it changes, the program is told by a signal.
job "api" {
  group "api" {
    network {
      port "http" {}
    }
    task "api" {
      driver = "exec"
      config {
        command = "/usr/local/bin/api"
        args    = ["-c", "${NOMAD_SECRETS_DIR}/api.conf"]
      }
      template {
        destination   = "secrets/api.conf"
        perms         = "0600"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<-EOT
          {{ with nomadVar "nomad/jobs/api" }}
          password = {{ .password }}
          {{ end }}
          listen = {{ env "NOMAD_ADDR_http" }}
        EOT
      }
    }
  }
}
