job "log-rotate" {
  type = "batch"
  periodic {
    cron = "@hourly"
  }
  group "rotate" {
    task "logrotate" {
      driver = "raw_exec"
      config {
        command = "/usr/sbin/logrotate"
        args    = ["/etc/logrotate.conf"]
      }
    }
  }
}
