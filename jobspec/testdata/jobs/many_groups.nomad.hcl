# Several groups.
job "many-groups" {
  group "g0" {
    count = 0
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
  group "g1" {
    count = 1
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
  group "g2" {
    count = 2
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
  group "g3" {
    count = 3
    task "app" {
      driver = "exec"
      config {
        command = "/bin/app"
      }
    }
  }
}
