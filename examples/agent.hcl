# An agent in service, server and node in one: berth agent -config /etc/berth.d
# Its tasks outlive it, and go on under the next agent with the same data_dir. Every setting is in
# docs/reference/agent.md, which the package puts below /usr/share/doc/berth.
data_dir = "/var/lib/berth"

server {
  enabled = true
}

client {
  enabled   = true
  local_csi = true # the bundled storage plugin; "berth agent -dev" runs it unasked

  # host_volume "media" { path = "/srv/media" }   # a directory that jobs may mount by name
}

# The bundled plugin mounts, so it runs with this driver. Whoever may submit jobs can then run anything as root here;
# without local_csi leave it out.
plugin "raw_exec" {
  config {
    enabled = true
  }
}

# Tasks of exec that name no user are nobody, and none is root. To let them be:
#
# plugin "exec" {
#   config {
#     default_user = "root" # of tasks that name none
#     denied_users = []
#   }
# }

# The API is on a unix socket, for root, and on 127.0.0.1:4646, for requests with a token of the access control lists:
# docs/access.md says what a token is, and how to have no port.
api {
  socket = "/run/berth/api.sock"
}
