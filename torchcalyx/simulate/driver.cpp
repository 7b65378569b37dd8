// Clocks a verilated `harness` through all vectors in one run, with a reset only at the start.
// Arguments: VECTORS LIMIT DUMP TRACE_FILE ("-": none), then plusargs such as +DATA=<folder>.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "Vharness.h"
#if TRACE_VCD
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
#elif TRACE_FST
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
#endif

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    const long vectors = std::atol(argv[1]);
    const long limit = std::atol(argv[2]);
    const bool with_dump = std::atol(argv[3]) != 0;
    const auto context = std::make_unique<VerilatedContext>();
    // Undefined values become random ones, the same in each run.
    context->randReset(2);
    context->randSeed(1);
    context->commandArgs(argc, argv);
#if TRACE_VCD || TRACE_FST
    context->traceEverOn(true);
#endif
    const auto top = std::make_unique<Vharness>(context.get());
#if TRACE_VCD || TRACE_FST
    Trace trace;
    top->trace(&trace, 99);
    trace.open(argv[4]);
#endif
    const auto settle = [&] {
        top->eval();
#if TRACE_VCD || TRACE_FST
        trace.dump(context->time());
#endif
        context->timeInc(1);
    };
    const auto tick = [&] {
        top->clk = 1;
        settle();
        top->clk = 0;
        settle();
    };

    top->clk = top->go = top->load = top->store = top->dump = 0;
    top->vector = 0;
    top->reset = 1;
    settle();
    for (int i = 0; i < 3; i++) tick();
    top->reset = 0;
    settle();
    for (long vector = 0; vector < vectors; vector++) {
        top->vector = static_cast<unsigned>(vector);
        top->load = 1;
        settle();
        top->load = 0;
        settle();
        top->go = 1;
        settle();
        long cycles = 0;
        for (; !top->done && cycles < limit; cycles++) tick();
        if (!top->done || context->gotFinish()) {
            const char* const state = top->done ? "stopped by the design" : "not done";
            std::printf("torchcalyx: the call is %s after %ld cycles\n", state, cycles);
            std::fflush(stdout);
#if TRACE_VCD || TRACE_FST
            trace.close();
#endif
            return 1;
        }
        // go falls before the next clock edge: a static main would start again.
        top->go = 0;
        settle();
        tick();
        top->store = 1;
        settle();
        top->store = 0;
        settle();
        if (with_dump) {
            top->dump = 1;
            settle();
            top->dump = 0;
            settle();
        }
        std::printf("vector %ld: %ld cycles\n", vector, cycles);
        std::fflush(stdout);
    }
    top->final();
#if TRACE_VCD || TRACE_FST
    trace.close();
#endif
    return 0;
}
