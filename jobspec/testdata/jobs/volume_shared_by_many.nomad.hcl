# A directory of uploads that all web servers write.
job "uploads" {
  group "web" {
    count = 4
    volume "uploads" {
      type            = "csi"
      source          = "uploads"
      access_mode     = "multi-node-multi-writer"
      attachment_mode = "file-system"
      mount_options {
        mount_flags = ["noatime", "nodev"]
      }
    }
    task "web" {
      driver = "exec"
      volume_mount {
        volume      = "uploads"
        destination = "/srv/uploads"
      }
      config {
        command = "/usr/local/bin/web"
      }
    }
  }
}
