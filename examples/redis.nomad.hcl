# A Redis that keeps its data on a volume: berth job run examples/redis.nomad.hcl
# It runs Debian's redis-server, isolated from the machine, with no container image.

variable "name" {
  default = "redis"
}

variable "volume" {
  default = "redis-data"
}

job "redis" {
  id   = var.name
  name = var.name

  group "redis" {
    update {
      min_healthy_time = "2s" # who runs so long is healthy, and the next may follow; 10 s unless said
    }

    network {
      port "redis" {}
    }

    volume "data" {
      type            = "csi"
      source          = var.volume
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "redis" {
      driver       = "exec"    # as nobody; user = "redis" makes it another user of the node
      kill_signal  = "SIGTERM" # Redis saves and ends
      kill_timeout = "20s"

      config {
        command = "redis-server"
        args = [
          "--bind", "127.0.0.1",
          "--port", "${NOMAD_PORT_redis}",
          "--dir", "/data",
          "--appendonly", "yes", # every write goes to a file on the volume
        ]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
