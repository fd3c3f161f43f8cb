# A volume for each allocation.
job "per-alloc" {
  group "g" {
    count = 3

    volume "data" {
      type            = "csi"
      source          = "data"
      per_alloc       = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"

      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
    }
    task "db" {
      driver       = "exec"
      user         = "postgres"
      kill_timeout = "30s"
      kill_signal  = "SIGINT"
      config {
        command = "/usr/bin/db"
      }

      volume_mount {
        volume      = "data"
        destination = "/var/lib/db"
      }
    }
  }
}
