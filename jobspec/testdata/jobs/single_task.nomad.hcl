# The shortest job: a task directly under the job.
job "single" {
  task "sleep" {
    driver = "raw_exec"
    config {
      command = "/bin/sleep"
      args    = ["60"]
    }
  }
}
