# Reports at the end of each working day and of each month.
job "reports" {
  type     = "batch"
  priority = 30
  periodic {
    crons     = ["0 18 * * 1-5", "0 23 28 * *"]
    enabled   = false
    time_zone = "America/New_York"
  }
  meta {
    owner = "finance"
  }
  group "report" {
    count = 2
    task "render" {
      driver = "exec"
      config {
        command = "/bin/echo"
        args    = ["report ${NOMAD_ALLOC_INDEX} of ${NOMAD_META_owner}"]
      }
    }
  }
}
