# A job that brings its volume.
job "brings-volume" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "brings"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"

      create {
        plugin_id    = "disk"
        capacity_min = "1GiB"
        capacity_max = "2GiB"

        parameters = {
          pool = "fast"
        }

        ownership {
          uid    = 70
          gid    = 70
          mode   = "0750"
          policy = "root_only"
        }
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
