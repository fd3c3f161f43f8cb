job "haproxy" {
  group "lb" {
    network {
      port "http" {
        static = 8080
      }
    }
    task "haproxy" {
      driver = "exec"
      config {
        command = "/usr/sbin/haproxy"
        args    = ["-W", "-f", "local/haproxy.cfg"]
      }
      template {
        destination     = "local/haproxy.cfg"
        left_delimiter  = "[["
        right_delimiter = "]]"
        change_mode     = "script"
        change_script {
          command       = "/bin/sh"
          args          = ["-c", "kill -USR2 $(cat /var/run/haproxy.pid)"]
          timeout       = "20s"
          fail_on_error = true
        }
        wait {
          min = "2s"
          max = "10s"
        }
        data = <<-EOT
          frontend http
            bind *:[[ env "NOMAD_PORT_http" ]]
            default_backend web
          backend web
          [[ range nomadService "web" ]]
            server [[ .ID ]] [[ .Address ]]:[[ .Port ]] check
          [[ end ]]
        EOT
      }
    }
  }
}
