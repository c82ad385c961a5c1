/* Start-up for a Cortex-M4 in QEMU (mps2-an386). */
#include <stdint.h>
#include <stdio.h>

extern int main(void);
extern uint32_t stack_top, data_load, data_start, data_end, bss_start, bss_end;
extern void initialise_monitor_handles(void);
void _exit(int);

void reset(void)
{
    uint32_t *from = &data_load, *to = &data_start;
    int code;
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* switch on the FPU */
    while (to < &data_end)
        *to++ = *from++;
    for (to = &bss_start; to < &bss_end;)
        *to++ = 0;
    initialise_monitor_handles();
    code = main();
    fflush(NULL);
    _exit(code);
}
static void stop(void) { _exit(99); }
__attribute__((section(".vectors"), used)) static const void *vectors[16] = {
    &stack_top, (void *)reset, (void *)stop, (void *)stop, (void *)stop, (void *)stop, (void *)stop};
