# Texts over several lines.
job "heredocs" {
  group "g" {
    task "app" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          set -e
          echo "quoted \"text\""
          EOF
        ]
      }

      template {
        destination = "local/a"
        data        = <<EOF
no indent
  two
EOF
      }
    }
  }
}
