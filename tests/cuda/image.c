/* image.c - the shim needs none. */
const unsigned char mg_cuda_image[1];
