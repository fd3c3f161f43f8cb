# What services and their checks can say that few say.
job "store" {
  secret "db" {
    provider = "nomad"
    path     = "nomad/jobs/store"
    config {
      namespace = "default"
    }
  }

  group "web" {
    network {
      mode = "bridge"
      port "https" {
        static       = 8443
        to           = 443
        host_network = "default"
      }
    }

    service {
      name        = "store"
      provider    = "nomad"
      port        = "https"
      task        = "web"
      canary_tags = ["next"]

      check_restart {
        limit           = 3
        grace           = "20s"
        ignore_warnings = true
      }

      identity {
        aud           = ["store.example"]
        service_name  = "store"
        ttl           = "1h"
        file          = true
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      check {
        type            = "http"
        name            = "answers"
        path            = "/health"
        protocol        = "https"
        method          = "HEAD"
        tls_server_name = "store.example"
        tls_skip_verify = true
        initial_status  = "critical"
        interval        = "10s"
        timeout         = "2s"
      }

      check {
        type     = "script"
        name     = "ready"
        task     = "web"
        command  = "/usr/local/bin/ready"
        args     = ["-fast"]
        interval = "10s"
        timeout  = "5s"
      }
    }

    restart {
      attempts         = 4
      interval         = "5m"
      delay            = "1s"
      mode             = "delay"
      render_templates = true
    }

    scaling {
      min     = 1
      max     = 5
      enabled = false
      type    = "horizontal"
      policy {
        cooldown = "1m"
      }
    }

    task "web" {
      driver = "exec"
      config {
        command = "/usr/local/bin/store"
      }
      scaling "mem" {
        max = 1024
      }
    }
  }
}
