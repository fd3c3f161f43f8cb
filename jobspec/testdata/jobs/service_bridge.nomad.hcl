# A service with checks in a network of its own.
job "service-bridge" {
  group "g" {
    network {
      mode     = "bridge"
      hostname = "web-${NOMAD_ALLOC_INDEX}"

      dns {
        servers  = ["10.0.0.2", "10.0.0.3"]
        searches = ["svc.example"]
        options  = ["ndots:2"]
      }

      port "http" {
        to = 8080
      }
      port "admin" {
        static       = 9901
        host_network = "private"
      }
    }

    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
      tags     = ["green", "v${NOMAD_META_version}"]

      check {
        type     = "http"
        path     = "/health"
        method   = "POST"
        body     = "are you well?"
        interval = "10s"
        timeout  = "2s"

        header {
          Authorization = ["Basic x"]
        }

        check_restart {
          limit           = 3
          grace           = "90s"
          ignore_warnings = false
        }
      }

      check {
        name      = "port is open"
        type      = "tcp"
        port      = "admin"
        interval  = "5s"
        timeout   = "1s"
        on_update = "ignore_warnings"
      }
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
