# A raw block volume, to be read.
job "block-device" {
  group "g" {
    volume "raw" {
      type            = "csi"
      source          = "raw"
      read_only       = true
      access_mode     = "single-node-reader-only"
      attachment_mode = "block-device"
    }
    task "dd" {
      driver = "exec"
      config {
        command = "/bin/dd"
        args    = ["if=/dev/raw", "of=/dev/null"]
      }

      volume_mount {
        volume      = "raw"
        destination = "/dev/raw"
        read_only   = true
      }
    }
  }
}
