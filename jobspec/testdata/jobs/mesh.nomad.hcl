# A member of Consul's mesh, with a proxy of its own kind.
job "orders" {
  group "orders" {
    consul {
      namespace = "default"
      cluster   = "default"
    }

    volume "certificates" {
      type      = "host"
      source    = "certificates"
      read_only = true
    }

    network {
      mode = "bridge"
      port "mesh" {}
      port "metrics" {}
    }

    service {
      name     = "orders"
      provider = "consul"
      port     = "8080"

      connect {
        sidecar_service {
          port                      = "mesh"
          tags                      = ["proxy"]
          disable_default_tcp_check = true
          meta {
            version = "2"
          }

          proxy {
            local_service_address = "127.0.0.1"
            local_service_port    = 8080

            upstreams {
              destination_name   = "stock"
              destination_type   = "service"
              datacenter         = "dc1"
              local_bind_port    = 9001
              local_bind_address = "127.0.0.1"
              mesh_gateway {
                mode = "local"
              }
              config {
                connect_timeout_ms = 500
              }
            }

            upstreams {
              destination_name       = "prices"
              destination_peer       = "partner"
              local_bind_socket_path = "/alloc/prices.sock"
              local_bind_socket_mode = "0660"
            }

            expose {
              path {
                path            = "/metrics"
                protocol        = "http"
                local_path_port = 8080
                listener_port   = "metrics"
              }
            }

            config {
              protocol = "http"
            }
          }
        }

        sidecar_task {
          name           = "proxy"
          driver         = "raw_exec"
          user           = "nobody"
          kill_timeout   = "10s"
          kill_signal    = "SIGTERM"
          shutdown_delay = "2s"
          config {
            command = "/usr/local/bin/envoy"
          }
          env {
            LANG = "C.UTF-8"
          }
          meta {
            role = "proxy"
          }
          resources {
            cpu    = 100
            memory = 64
          }
          logs {
            max_files     = 3
            max_file_size = 3
          }
          volume_mount {
            volume      = "certificates"
            destination = "/etc/certificates"
            read_only   = true
          }
          identity {
            name = "mesh"
            aud  = ["mesh.example"]
            file = true
          }
        }
      }
    }

    service {
      name     = "orders-admin"
      provider = "consul"
      port     = "metrics"
      task     = "orders"
      connect {
        native = true
      }
    }

    task "orders" {
      driver = "exec"
      config {
        command = "/usr/local/bin/orders"
      }
    }
  }
}
