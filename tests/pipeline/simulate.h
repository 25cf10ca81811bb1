/* simulate.h - runs tables and programs as ranks would, and sees what happens. Written from
 * pipeline.h alone: of what is in pipeline/ it uses the rows, and no function. */
#ifndef TEST_SIMULATE_H
#define TEST_SIMULATE_H

#include "pipeline/pipeline.h"

/* All ranks come to the end, with every gradient complete and added once. Sends and receives are
 * rendezvous. A table without them is run with results that are everywhere at once. */
bool simulate_data(const PipeTable *t);   /* sends and receives are left out */
bool simulate_single(const PipeTable *t); /* each rank does one thing after the other */
/* Each rank computes, sends and receives beside each other; by way: sends and receives forward
 * beside those back. */
bool simulate_queues(const PipeTable *t, bool by_way);

/* Runs a lowered program. Ranks start and go on, and wait only where the program says so; messages
 * arrive as late as they may, in random order. */
bool simulate_program(const PipeProgram *p, uint64_t seed);

#endif
