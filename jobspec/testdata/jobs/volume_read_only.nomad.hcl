job "search" {
  group "search" {
    count = 2
    volume "index" {
      type            = "csi"
      source          = "index"
      read_only       = true
      access_mode     = "multi-node-reader-only"
      attachment_mode = "file-system"
    }
    volume "certs" {
      type      = "host"
      source    = "certs"
      read_only = true
    }
    task "search" {
      driver = "exec"
      volume_mount {
        volume      = "index"
        destination = "/index"
        read_only   = true
      }
      volume_mount {
        volume      = "certs"
        destination = "/etc/ssl/private"
        read_only   = true
      }
      config {
        command = "/usr/local/bin/search"
      }
    }
  }
}
