job "gateway" {
  group "gateway" {
    network {
      mode     = "bridge"
      hostname = "gateway"
      port "http" {
        static = 80
        to     = 8080
      }
      port "metrics" {
        to = 9102
      }
      dns {
        servers  = ["10.0.0.53"]
        searches = ["service.internal"]
        options  = ["ndots:2"]
      }
    }
    task "envoy" {
      driver = "exec"
      config {
        command = "/usr/local/bin/envoy"
        args    = ["-c", "/etc/envoy.yaml"]
      }
    }
  }
}
