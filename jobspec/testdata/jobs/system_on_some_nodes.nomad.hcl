job "node-exporter" {
  type        = "system"
  datacenters = ["dc1", "dc2"]
  priority    = 90
  constraint {
    attribute = "${node.class}"
    operator  = "!="
    value     = "gpu"
  }
  update {
    max_parallel     = 2
    min_healthy_time = "5s"
  }
  group "exporter" {
    network {
      port "metrics" {
        static = 9100
      }
    }
    service {
      name     = "node-exporter"
      provider = "nomad"
      port     = "metrics"
    }
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }
    task "exporter" {
      driver = "raw_exec"
      config {
        command = "/usr/bin/node_exporter"
        args    = ["--web.listen-address=:9100"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
