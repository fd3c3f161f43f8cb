job "reindex" {
  type = "batch"
  parameterized {
    payload       = "forbidden"
    meta_required = ["index"]
  }
  group "g" {
    task "reindex" {
      driver = "raw_exec"
      config {
        command = "/usr/local/bin/reindex"
        args    = ["--index", "${NOMAD_META_index}"]
      }
    }
  }
}
