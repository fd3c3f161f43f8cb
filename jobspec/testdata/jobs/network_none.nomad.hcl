job "offline" {
  type = "batch"
  group "g" {
    network {
      mode = "none"
    }
    task "verify" {
      driver = "exec"
      config {
        command = "/usr/bin/sha256sum"
        args    = ["-c", "/dev/null"]
      }
    }
  }
}
