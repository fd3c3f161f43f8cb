job "from-github" {
  type = "batch"
  group "g" {
    task "build" {
      driver = "exec"
      artifact {
        source = "github.com/example/tools//scripts?ref=main"
      }
      artifact {
        source   = "https://mirror.internal/tool.bin"
        mode     = "file"
        insecure = true
        options {
          archive  = "false"
          filename = "tool"
        }
      }
      config {
        command = "/bin/sh"
        args    = ["local/build.sh"]
      }
    }
  }
}
