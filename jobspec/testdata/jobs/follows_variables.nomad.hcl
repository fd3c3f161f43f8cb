# Templates that follow variables and services.
job "follows-variables" {
  group "g" {
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }

      template {
        destination = "secrets/db.env"
        env         = true
        change_mode = "restart"
        splay       = "10s"
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/follows-variables" }}
          PASSWORD={{ .password }}
          {{ end }}
          {{ range nomadService "db" }}
          DB={{ .Address }}:{{ .Port }}
          {{ end }}
        EOF
      }

      template {
        destination          = "local/list"
        perms                = "0600"
        error_on_missing_key = true
        change_mode          = "noop"
        data                 = "{{ range nomadVarList }}{{ .Path }}\n{{ end }}"
      }
    }
  }
}
