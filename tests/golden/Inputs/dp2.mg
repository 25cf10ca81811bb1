layout dp2 {
    device cpu
    mesh dp = 2
    batch -> dp
    microbatch 4
}
