# A service that speaks gRPC.
job "service-grpc" {
  group "g" {
    network {
      port "grpc" {}
    }

    service {
      name         = "api"
      port         = "grpc"
      provider     = "nomad"
      address_mode = "host"
      on_update    = "require_healthy"

      check {
        type                     = "grpc"
        grpc_service             = "health.v1"
        grpc_use_tls             = true
        tls_skip_verify          = true
        interval                 = "10s"
        timeout                  = "2s"
        success_before_passing   = 2
        failures_before_critical = 3
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
