job "site" {
  group "g" {
    task "nginx" {
      driver = "exec"
      artifact {
        source      = "https://config.example.com/nginx.conf.tpl"
        destination = "local/nginx.conf.tpl"
        mode        = "file"
      }
      template {
        source               = "local/nginx.conf.tpl"
        destination          = "local/nginx.conf"
        once                 = true
        error_on_missing_key = true
      }
      config {
        command = "/usr/sbin/nginx"
        args    = ["-c", "${NOMAD_TASK_DIR}/nginx.conf"]
      }
    }
  }
}
