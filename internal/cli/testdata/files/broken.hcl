job "broken" {
  group "g" {
    cuont = 2
  }
}
