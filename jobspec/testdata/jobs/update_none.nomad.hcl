job "pinned" {
  group "g" {
    update {
      max_parallel = 0
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
    }
  }
}
