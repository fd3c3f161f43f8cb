# Gateways of Consul's mesh: one that lets traffic in, one that lets it out, and one between meshes.
job "edge" {
  group "in" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }
    service {
      name     = "edge-in"
      provider = "consul"
      port     = "http"
      connect {
        gateway {
          proxy {
            connect_timeout                     = "2s"
            envoy_gateway_bind_tagged_addresses = true
            envoy_gateway_bind_addresses "all" {
              address = "0.0.0.0"
              port    = 8080
            }
            envoy_gateway_no_default_bind = true
            envoy_dns_discovery_type      = "STRICT_DNS"
            config {
              protocol = "http"
            }
          }
          ingress {
            tls {
              enabled         = true
              tls_min_version = "TLSv1_2"
              tls_max_version = "TLSv1_3"
              cipher_suites   = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
              sds {
                cluster_name  = "sds"
                cert_resource = "edge"
              }
            }
            listener {
              port     = 8080
              protocol = "http"
              tls {
                enabled = true
              }
              service {
                name                    = "shop"
                hosts                   = ["shop.example"]
                max_connections         = 100
                max_pending_requests    = 50
                max_concurrent_requests = 75
                request_headers {
                  add    = { "x-from" = "outside" }
                  set    = { "x-edge" = "in" }
                  remove = ["x-debug"]
                }
                response_headers {
                  add    = { "x-by" = "edge" }
                  set    = { "x-edge" = "in" }
                  remove = ["server"]
                }
                tls {
                  sds {
                    cluster_name  = "sds"
                    cert_resource = "shop"
                  }
                }
              }
            }
          }
        }
      }
    }
  }

  group "out" {
    network {
      mode = "bridge"
      port "out" {}
    }
    service {
      name     = "edge-out"
      provider = "consul"
      port     = "out"
      connect {
        gateway {
          terminating {
            service {
              name      = "billing"
              ca_file   = "/secrets/ca.pem"
              cert_file = "/secrets/cert.pem"
              key_file  = "/secrets/key.pem"
              sni       = "billing.example"
            }
          }
        }
      }
    }
  }

  group "between" {
    network {
      mode = "bridge"
      port "mesh" {}
    }
    service {
      name     = "edge-between"
      provider = "consul"
      port     = "mesh"
      connect {
        gateway {
          mesh {}
        }
      }
    }
  }
}
