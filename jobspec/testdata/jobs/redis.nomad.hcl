# A database on a CSI volume, as one writes it from memory.
job "redis" {
  datacenters = ["dc1"]
  type        = "service"

  group "cache" {
    count          = 1
    shutdown_delay = "2s"

    network {
      port "redis" {
        static = 6379
      }
      port "metrics" {}
    }

    volume "data" {
      type            = "csi"
      source          = "redis-data"
      read_only       = false
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"

      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
    }

    restart {
      attempts = 5
      interval = "10m"
      delay    = "5s"
      mode     = "delay"
    }

    ephemeral_disk {
      size = 500
    }

    task "redis" {
      driver       = "exec"
      user         = "redis"
      kill_timeout = "30s"
      kill_signal  = "SIGTERM"

      config {
        command = "/usr/bin/redis-server"
        args = [
          "--port", "${NOMAD_PORT_redis}",
          "--dir", "/data",
          "--appendonly", "yes",
        ]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      env {
        LC_ALL = "C.UTF-8"
      }

      resources {
        cpu        = 500
        memory     = 256
        memory_max = 512
      }

      logs {
        max_files     = 3
        max_file_size = 5
      }
    }
  }
}
