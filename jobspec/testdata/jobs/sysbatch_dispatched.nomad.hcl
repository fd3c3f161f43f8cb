# Runs once on each Linux node, when it is dispatched: to clear caches.
job "clear-caches" {
  type = "sysbatch"
  parameterized {
    payload = "optional"
  }
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  group "g" {
    task "clear" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "rm -rf /var/cache/app/*"]
      }
    }
  }
}
