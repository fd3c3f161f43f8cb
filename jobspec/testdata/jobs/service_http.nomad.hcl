job "shop" {
  group "web" {
    count          = 2
    shutdown_delay = "5s"
    network {
      port "http" {}
      port "admin" {}
    }
    service {
      name     = "shop"
      provider = "nomad"
      port     = "http"
      tags     = ["public", "v${NOMAD_META_version}"]
      check {
        type     = "http"
        name     = "ready"
        path     = "/healthz"
        interval = "10s"
        timeout  = "2s"
        header {
          Accept = ["application/json"]
        }
        check_restart {
          limit = 3
          grace = "30s"
        }
      }
    }
    service {
      name     = "shop-admin"
      provider = "nomad"
      port     = "admin"
      check {
        type     = "tcp"
        interval = "15s"
        timeout  = "3s"
      }
    }
    task "shop" {
      driver = "exec"
      meta {
        version = "3"
      }
      config {
        command = "/usr/local/bin/shop"
        args    = ["-listen", "${NOMAD_ADDR_http}", "-admin", "${NOMAD_ADDR_admin}"]
      }
    }
  }
}
